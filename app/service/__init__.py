"""The operations of the API beyond the store, without HTTP: submit, watch, review, report."""
