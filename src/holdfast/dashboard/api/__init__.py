"""The JSON API, made from the operations, and the document that describes it."""
