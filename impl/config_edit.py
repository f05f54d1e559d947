"""Changing one setting in the text of a configuration file, with everything else left as it is."""

from impl.config_syntax import Located, format_entry, format_section, locate_entries


def set_value(content: bytes, key: str, value: str | None, path: str) -> bytes | None:
    """The file with the last entry of a key replaced, or added; removed for None.

    None if there is nothing to remove. Raises InvalidConfiguration for a file that is malformed.
    """
    text = content.decode("utf-8", "surrogateescape")
    located = list(locate_entries(text, path))
    matching = [entry for entry in located if entry.key == key]
    header, name = format_section(key)
    if matching:
        changed = _replace(text, matching[-1], "" if value is None else format_entry(name, value))
    elif value is None:
        return None
    else:
        changed = _insert(text, located, key, header, format_entry(name, value))
    return changed.encode("utf-8", "surrogateescape")


def _replace(text: str, entry: Located, line: str) -> str:
    """Put a line in place of an entry, and of the rest of its lines if nothing else is there."""
    start, end = entry.start, entry.end
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", end) + 1 or len(text)
    if not text[line_start:start].strip():
        return text[:line_start] + line + text[line_end:]
    # It shares its line with the section's header.
    return text[:start].rstrip(" \t") + "\n" + line + text[line_end:]


def _insert(text: str, located: list[Located], key: str, header: str, line: str) -> str:
    """After the last entry of the section, or in a new section at the end."""
    section = key[: key.rfind(".") + 1]
    for entry in reversed(located):
        if entry.key.startswith(section) and "." not in entry.key[len(section) :]:
            position = text.find("\n", entry.end) + 1 or len(text)
            lead = "" if text[:position].endswith("\n") else "\n"
            return text[:position] + lead + line + text[position:]
    lead = "" if not text or text.endswith("\n") else "\n"
    return text + lead + header + line
