"""Scenarios that no agent can be expected to solve, with the reason. The other scenarios are the ceiling of a panel.

We read every answer with a value that occurs in no earlier user turn or observation. gorilla#1367 counts 27 of the 200 base
items that none of 18 models passes. Items of these without a certain defect stay in the panels.
"""

SCENARIOS = {
    4: "the answer's post holds words in an order that sort() does not produce (gorilla#1367)",
    173: "the id of the ticket to close is stated nowhere, and listing tickets needs a login that is not given either",
    176: "the user dictates a description with the year 2026, the answer's says 2023, and the text is compared",
    187: "the answer's description of the ticket is free text that the user does not dictate, and it is compared",
    188: "the answer's failed login, with a password stated nowhere, must be among the outputs",
}
QUARANTINE = {
    f"multi_turn_{category}_{index}": reason
    for category in ("base", "miss_func", "miss_param", "long_context")
    for index, reason in SCENARIOS.items()
}
