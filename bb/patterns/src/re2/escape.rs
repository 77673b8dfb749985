//! Escapes of characters.

use super::{Parser, groups};

impl Parser<'_> {
    /// Parses an escape of one character; `None` for a surrogate, which no text contains.
    pub(super) fn escaped_char(&mut self) -> Result<Option<char>, String> {
        self.escaped_code().map(char::from_u32)
    }

    /// Parses an escape of one character, and returns its code point.
    pub(super) fn escaped_code(&mut self) -> Result<u32, String> {
        let all = self.rest;
        self.skip(1);
        let wrong = || format!("`{}` is no escape", groups::shown(all));
        let code = match self.next().ok_or_else(|| "it ends with a backslash".to_owned())? {
            c @ '0'..='7' => self.octal(c).ok_or_else(wrong)?,
            'x' => self.hexadecimal().ok_or_else(wrong)?,
            'n' => 10,
            'r' => 13,
            't' => 9,
            'a' => 7,
            'f' => 12,
            'v' => 11,
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => u32::from(c),
            _ => return Err(wrong()),
        };
        if code > u32::from(char::MAX) {
            return Err(wrong());
        }
        Ok(code)
    }

    /// Parses up to three octal digits. A single digit other than 0 would be a back-reference, which RE2 does not
    /// support.
    fn octal(&mut self, first: char) -> Option<u32> {
        let digits = self.rest.bytes().take(2).take_while(|c| (b'0'..=b'7').contains(c)).count();
        if first != '0' && digits == 0 {
            return None;
        }
        let more = self.rest.get(..digits)?;
        self.skip(digits);
        u32::from_str_radix(&format!("{first}{more}"), 8).ok()
    }

    /// Parses two hexadecimal digits, or any number of digits in braces.
    fn hexadecimal(&mut self) -> Option<u32> {
        let digits = if self.takes("{") {
            let (digits, after) = self.rest.split_once('}')?;
            self.rest = after;
            digits
        } else {
            let digits = self.rest.get(..2)?;
            self.skip(2);
            digits
        };
        // `from_str_radix` also accepts a sign, which is not allowed here.
        let is_hexadecimal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_hexadecimal.then(|| u32::from_str_radix(digits, 16).ok())?
    }
}
