//! Classes of characters.

use super::{Parser, groups};
use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};

/// Returns the class of the characters from `first` to `last`.
pub(super) fn of(first: char, last: char) -> ClassUnicode {
    ClassUnicode::new([ClassUnicodeRange::new(first, last)])
}

/// Adds the characters that differ only in case.
pub(super) fn folded(mut class: ClassUnicode) -> ClassUnicode {
    // This only fails without Unicode tables, which this crate enables.
    let _ = class.try_case_fold_simple();
    class
}

impl Parser<'_> {
    /// Parses an escape that stands at the current position and means a class: `\d`, `\pL`, `\p{^Greek}`.
    /// Returns `None` if there is none.
    pub(super) fn class_of_escape(&mut self) -> Result<Option<ClassUnicode>, String> {
        let all = self.rest;
        let mut chars = all.chars().skip(1);
        let Some(kind) = chars.next() else { return Ok(None) };
        let (positive, group) = match kind {
            'd' | 's' | 'w' => (true, groups::perl(kind)),
            'D' | 'S' | 'W' => (false, groups::perl(kind.to_ascii_lowercase())),
            'p' | 'P' => {
                self.skip(2);
                let wrong = || format!("`{}` is no class", groups::shown(all));
                let name = if self.takes("{") {
                    let (name, after) = self.rest.split_once('}').ok_or_else(wrong)?;
                    self.rest = after;
                    name
                } else {
                    let length = self.rest.chars().next().ok_or_else(wrong)?.len_utf8();
                    let name = self.rest.get(..length).unwrap_or_default();
                    self.skip(length);
                    name
                };
                let positive = name.strip_prefix('^');
                let group = groups::unicode(positive.unwrap_or(name)).ok_or_else(wrong)?;
                ((kind == 'p') == positive.is_none(), group)
            }
            _ => return Ok(None),
        };
        if !matches!(kind, 'p' | 'P') {
            self.skip(2);
        }
        self.group_of(positive, group).map(Some)
    }

    /// Returns a group of characters, or its complement.
    fn group_of(&mut self, positive: bool, group: ClassUnicode) -> Result<ClassUnicode, String> {
        let mut class = if self.flags.folds { folded(group) } else { group };
        if !positive {
            class.negate();
        }
        self.count(class)
    }

    /// Parses a class in brackets.
    pub(super) fn bracketed(&mut self) -> Result<ClassUnicode, String> {
        self.skip(1);
        let is_negated = self.takes("^");
        let mut ranges: Vec<ClassUnicodeRange> = Vec::new();
        // A closing bracket at the start of a class is a literal.
        let mut is_first = true;
        while is_first || !self.rest.starts_with(']') {
            is_first = false;
            if self.rest.is_empty() {
                return Err("a `[` is not closed".to_owned());
            }
            if let Some(class) = self.posix()? {
                ranges.extend_from_slice(class.ranges());
                continue;
            }
            if self.rest.starts_with('\\')
                && let Some(class) = self.class_of_escape()?
            {
                ranges.extend_from_slice(class.ranges());
                continue;
            }
            ranges.extend(self.range()?);
        }
        self.skip(1);
        let class = ClassUnicode::new(ranges);
        let mut class = if self.flags.folds { folded(class) } else { class };
        if is_negated {
            class.negate();
        }
        self.count(class)
    }

    /// Parses `[:name:]` or `[:^name:]`; `None` if there is none at the current position.
    fn posix(&mut self) -> Result<Option<ClassUnicode>, String> {
        let all = self.rest;
        let Some((name, after)) = all.strip_prefix("[:").and_then(|rest| rest.split_once(":]")) else {
            return Ok(None);
        };
        let positive = name.strip_prefix('^');
        let group = groups::posix(positive.unwrap_or(name));
        let group = group.ok_or_else(|| format!("`[:{}:]` is no class", groups::shown(name)))?;
        self.rest = after;
        self.group_of(positive.is_none(), group).map(Some)
    }

    /// Parses a character or a range. Surrogates are excluded from the range.
    fn range(&mut self) -> Result<Option<ClassUnicodeRange>, String> {
        let all = self.rest;
        let first = self.char_of_class()?;
        let last = if self.rest.starts_with('-') && !self.rest.starts_with("-]") && self.rest.len() > 1 {
            self.skip(1);
            self.char_of_class()?
        } else {
            first
        };
        if first > last {
            let text = all.get(..all.len() - self.rest.len()).unwrap_or_default();
            return Err(format!("the range `{text}` is empty"));
        }
        let first = char::from_u32(first).unwrap_or('\u{E000}');
        let last = char::from_u32(last).unwrap_or('\u{D7FF}');
        Ok((first <= last).then(|| ClassUnicodeRange::new(first, last)))
    }

    fn char_of_class(&mut self) -> Result<u32, String> {
        if self.rest.starts_with('\\') {
            return self.escaped_code();
        }
        self.next().map(u32::from).ok_or_else(|| "a `[` is not closed".to_owned())
    }
}
