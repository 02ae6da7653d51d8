"""Reports: what is wrong now and what ran in a span of time, as text, page and workbook."""
