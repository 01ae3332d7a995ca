//! Names and values in quotes on a command line.

/// Names of columns. clap takes an option whose type is written `Vec` for one that is repeated, so
/// the list has a name of its own.
pub(crate) type Names = Vec<String>;

/// Reads names with commas between them; a name with a comma in it is in double quotes.
pub(crate) fn names(text: &str) -> Result<Names, String> {
    let mut names = Vec::new();
    let mut rest = text;
    loop {
        let (name, after) = match quoted(rest, "\"")? {
            Some(read) => read,
            None => {
                let (name, after) = rest.split_at(rest.find(',').unwrap_or(rest.len()));
                (name.to_owned(), after)
            }
        };
        names.push(name.clone());
        if after.is_empty() {
            return Ok(names);
        }
        rest = after
            .strip_prefix(',')
            .ok_or_else(|| format!("`{after}` follows the closing quote of `{name}`"))?;
    }
}

/// Reads a text in quotes, if it begins with one of `quotes`, and returns it with what follows.
/// Between quotes, a doubled one stands for one.
pub(crate) fn quoted<'a>(text: &'a str, quotes: &str) -> Result<Option<(String, &'a str)>, String> {
    let Some(quote) = text.chars().next().filter(|first| quotes.contains(*first)) else {
        return Ok(None);
    };
    let mut read = String::new();
    let mut rest = &text[1..];
    loop {
        let Some((part, after)) = rest.split_once(quote) else {
            return Err(format!("the quote that opens {text} is not closed"));
        };
        read += part;
        let Some(after) = after.strip_prefix(quote) else {
            return Ok(Some((read, after)));
        };
        read.push(quote);
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_commas_are_quoted() {
        let read = |text: &str| names(text).unwrap();
        assert_eq!(read("a"), ["a"]);
        assert_eq!(read("a, b,5\" pipe"), ["a", " b", "5\" pipe"]);
        assert_eq!(read(r#""a,b",c,"say ""no""""#), ["a,b", "c", "say \"no\""]);
        assert_eq!(read(""), [""]);
        assert!(names("\"a").unwrap_err().contains("is not closed"));
        assert!(names("\"a\"b,c").unwrap_err().contains("`b,c` follows"));
    }
}
