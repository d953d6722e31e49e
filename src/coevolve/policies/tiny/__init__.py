"""The embedded policy: under a million parameters, able but unreliable, made by stage ``base``.

tokenizer.py  one token for each tool, key and frequent value; everything else is spelled
demonstrate.py  right demonstrations, and those of an unreliable demonstrator
recipe.py  copying first, then right demonstrations, then unreliable ones
"""
