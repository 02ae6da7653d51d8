"""How the exercise was played before: two published strategies over a plain table, at the same prices."""
