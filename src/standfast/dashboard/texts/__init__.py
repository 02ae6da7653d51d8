"""The words of the dashboard, in every language that it speaks: one file of texts for each, with the same keys."""

from standfast.dashboard.texts.language import LANGUAGES, preferred
from standfast.dashboard.texts.texts import texts_in
from standfast.phrases import Texts

__all__ = ["LANGUAGES", "Texts", "preferred", "texts_in"]
