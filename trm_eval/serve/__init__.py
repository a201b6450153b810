"""The local dashboard: runs and results of a root in a browser, read-only, over the SQL of `tables.query`.

runs curves evaluations puzzles sql   a page each, what it asks and how it shows that (Streamlit, of the extra `serve`)
recursion                             how a network comes to an answer, for the page of puzzles
app parts                             the frame of all pages, and what they share
server                                the process that answers, and who may ask it
"""
