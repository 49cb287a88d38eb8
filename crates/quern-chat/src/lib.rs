//! Chat templates: the model's own Jinja, with outside text kept plain.
