"""The server behind `tf-transformer serve`: models over HTTP, in the interfaces that clients have already."""
