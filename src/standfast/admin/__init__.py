"""Operations: what the command line, the HTTP API and the pages do and ask, each written once."""
