"""Local dashboard: runs and results of a root in a browser, read-only, using the SQL of `tables.query`.

runs curves evaluations puzzles   one page each: its queries and its display (Streamlit, in the extra `serve`)
app parts                         the frame of all pages, and shared functions
server                            the server process, and access control
"""
