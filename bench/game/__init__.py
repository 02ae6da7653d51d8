"""The scheduling game: start jobs at their second from a database that tells nobody anything, cheaply.

A public exercise of 2019 with published scores. Its rules and workload are in `rules` and `workload`, pure;
instances are real processes (`instance`, `playing`) of ours or of a reference strategy (`ours`, `reference`). What
they did is judged from a ledger of their own and from the store (`judging`, `scoring`, `verdicts`), and told
(`report`).
"""
