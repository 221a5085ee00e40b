"""OpenAI's interface under `/openai/v1`: what a client asks in its form becomes a refinement."""
