"""A local dashboard: what a browser shows of a root's runs and results, read-only, over the SQL of `tables.query`.

runs evaluations puzzles recursion queries   what is asked and drawn; they know no browser
guard server                                 who may ask, and the process that answers
app screens/                                 the pages, with Streamlit, of the extra `serve`
"""
