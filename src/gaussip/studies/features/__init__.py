"""Studies of a table of features at several sites: reduce, split, fit by every method, score on a common hold-out.

design.py   what a study's TOML says
trial.py    the table reduced and split, and what every method starts from
scores.py   how a site's mixture is scored
run.py      cells and replicates, each computed once
report.py   tables, figures and a page
"""
