"""The words of the dashboard, in every language that it speaks: one file of texts for each, with the same keys."""

from holdfast.dashboard.texts.language import LANGUAGES, preferred
from holdfast.dashboard.texts.texts import texts_in
from holdfast.phrases import Texts

__all__ = ["LANGUAGES", "Texts", "preferred", "texts_in"]
