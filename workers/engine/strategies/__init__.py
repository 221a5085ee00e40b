"""The strategies, one module each: `<kind>.py` holds the coroutine function of the same name.

A module may also define `review_policy(plan)`, if something other than the critics judges a draft
as a whole, or if it revises in its own way. Drafts that a reviewer asks for are then judged and
revised like any other.
"""
