"""What must come out of a translation as it went in: links, placeholders, tags, terms of a glossary."""
