"""What the documentation site needs beside its pages: a reference written from the code."""
