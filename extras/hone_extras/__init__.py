"""Commands beside the core of Hone; a service needs none of them."""
