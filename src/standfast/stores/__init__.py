"""Where jobs live. A store speaks domain verbs; drivers run them and own the transaction."""
