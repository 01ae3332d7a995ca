//! Texts for terminals.

use std::borrow::Cow;

/// A text without characters that a terminal obeys instead of showing: controls, and those that
/// change the direction in which text runs. They are written as in Rust: `\n`, `\u{202e}`.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c.escape_default().to_string())
}

/// The same for JSON, which has such characters within texts alone, where they may be written as
/// `\u202e`.
pub(crate) fn printable_json(json: &str) -> Cow<'_, str> {
    // All such characters have four hexadecimal digits at most.
    escaped(json, |c| format!("\\u{:04x}", u32::from(c)))
}

fn escaped(text: &str, escape: impl Fn(char) -> String) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_obeyed(c) {
            shown += &escape(c);
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

fn is_obeyed(c: char) -> bool {
    // Controls (C0, delete, C1); the Arabic letter mark, the marks of direction, embeddings,
    // overrides and isolates; the separators of lines and paragraphs.
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_terminals_obey_is_escaped_and_nothing_else() {
        let obeyed = (0..0x20)
            .chain(0x7f..0xa0)
            .chain([0x61c, 0x200e, 0x200f])
            .chain(0x2028..=0x202e)
            .chain(0x2066..=0x2069);
        let obeyed: Vec<char> = obeyed.filter_map(char::from_u32).collect();
        for c in '\0'..='\u{ffff}' {
            let text = c.to_string();
            assert_eq!(printable(&text) != text, obeyed.contains(&c), "{c:?}");
        }
        assert_eq!(printable("a\u{202e}b\n"), "a\\u{202e}b\\n");
        let json = serde_json::json!({ "a\u{2066}": "\u{9b}2J" });
        let shown = printable_json(&json.to_string()).into_owned();
        assert_eq!(shown, "{\"a\\u2066\":\"\\u009b2J\"}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), json);
    }
}
