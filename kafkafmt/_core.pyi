"""What both cores offer: `_core` natively, `_pure` in Python. The docstrings here hold for both."""



class Record: ...
