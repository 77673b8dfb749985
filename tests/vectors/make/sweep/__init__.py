"""The sweep: every version of every operator, on every element type that its schema allows.

`cases` says what a case is and how its results are computed; the other modules hold a row per operator or group of
operators. `rows.ROWS` has them by name.
"""
