"""The words of the dashboard, in every language that it speaks: one file of texts for each, with the same keys."""

from holdfast.dashboard.texts.language import LANGUAGES, preferred
from holdfast.dashboard.texts.texts import Texts, texts_in

__all__ = ["LANGUAGES", "Texts", "preferred", "texts_in"]
