//! Names that a table may have. Format: docs/format.md, "Catalogue".

use crate::error::{Error, Result};

/// Bytes that the name of a table may have.
const NAME_BYTES_MAX: usize = 255;

/// Fails unless a name can be shown on one line, as it is: it may come from anywhere, and goes to
/// terminals and logs.
pub(super) fn check_name(name: &str) -> Result<()> {
    let reason = if name.is_empty() {
        "a table needs a name".into()
    } else if name.len() > NAME_BYTES_MAX {
        format!(
            "the name of a table has at most {NAME_BYTES_MAX} bytes, this one {}",
            name.len()
        )
    } else if let Some(character) = name.chars().find(|&character| !is_printable(character)) {
        format!("the name of a table is printable text; {name:?} has {character:?}")
    } else {
        return Ok(());
    };
    Err(Error::schema(reason))
}

/// Whether a character stands for itself: no control, no end of a line, nothing that changes the
/// direction of what follows.
fn is_printable(character: char) -> bool {
    let is_control = character.is_control() || matches!(character, '\u{2028}' | '\u{2029}' | '\u{feff}');
    let is_direction = matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !is_control && !is_direction
}
