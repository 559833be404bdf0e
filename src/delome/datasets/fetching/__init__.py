"""Downloads, archives, and the form in which a published dataset is kept."""
