"""The paper's simulation studies, the study of X-ray features and the demonstration; no other room imports them.

`design.load` gives a design from TOML, `run.run` computes its cells into a folder and resumes after an interruption,
and `report.report` writes tables, figures and a page beside published numbers.
"""
