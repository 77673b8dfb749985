//! Parses the grammar of RE2, <https://github.com/google/re2/wiki/Syntax>, as RE2's parser does with the default options.
//!
//! The result is the engine's representation of a pattern. So syntax that only the engine's own parser accepts has no effect: nested
//! classes, `&&`, `(?x)`, and Unicode classes.
//!
//! RE2 does not limit the nesting depth of a pattern. Here the limit is [`DEPTH`].

mod class;
mod escape;
mod groups;
mod repeat;

use regex_syntax::hir::{Class, ClassBytes, ClassBytesRange, ClassUnicode, Hir, Look};

/// The maximum nesting depth of repetitions, alternatives and sequences. The engine recurses to this depth.
const DEPTH: u32 = 250;

/// The maximum number of ranges in all classes together. Each range takes more than ten bytes of a compiled pattern.
const RANGES: usize = 1 << 20;

/// Parses a pattern. The error describes the fault of the pattern.
pub(crate) fn parsed(pattern: &str) -> Result<Hir, String> {
    let mut parser = Parser {
        rest: pattern,
        flags: Flags::default(),
        open: Vec::new(),
        group: Group::default(),
        ranges: 0,
    };
    let mut repetition = None;
    while let Some(c) = parser.rest.chars().next() {
        repetition = parser.item(c, repetition)?;
    }
    match parser.open.pop() {
        None => Ok(parser.group.finished()?.hir),
        Some(_) => Err("a `(` is not closed".to_owned()),
    }
}

/// The flags of `(?flags)`. `U` is not stored: the longest match counts, so it makes no difference whether repetitions are greedy.
#[derive(Debug, Clone, Copy, Default)]
struct Flags {
    /// `i`: matching ignores case.
    folds: bool,
    /// `m`: `^` and `$` match at the start and the end of lines.
    lines: bool,
    /// `s`: `.` also matches a line feed.
    dot_is_all: bool,
}

/// A part of a pattern.
#[derive(Debug)]
struct Part {
    hir: Hir,
    depth: u32,
    /// The maximum product of counts of nested repetitions in this part.
    times: u32,
}

impl Part {
    fn leaf(hir: Hir) -> Part {
        Part { hir, depth: 0, times: 1 }
    }

    /// Joins several parts into one. A single part is returned without a call of `join`.
    fn joined(mut parts: Vec<Part>, join: impl FnOnce(Vec<Hir>) -> Hir) -> Result<Part, String> {
        if parts.len() == 1
            && let Some(only) = parts.pop()
        {
            return Ok(only);
        }
        let depth = parts.iter().map(|part| part.depth + 1).max().unwrap_or(0);
        let times = parts.iter().map(|part| part.times).max().unwrap_or(1);
        let hir = join(parts.into_iter().map(|part| part.hir).collect());
        Part { hir, depth, times }.bounded()
    }

    fn bounded(self) -> Result<Part, String> {
        if self.depth > DEPTH {
            return Err(format!("it is nested deeper than {DEPTH}"));
        }
        Ok(self)
    }
}

/// A group that is being parsed.
#[derive(Debug, Default)]
struct Group {
    /// The flags outside of the group.
    outer: Flags,
    /// The alternatives before the current one.
    before: Vec<Part>,
    last: Vec<Part>,
    /// Literal characters after the parts of `last`.
    text: String,
}

impl Group {
    /// Adds the pending literal characters as a part.
    fn end_text(&mut self) {
        if !self.text.is_empty() {
            let text = std::mem::take(&mut self.text);
            self.last.push(Part::leaf(Hir::literal(text.into_bytes())));
        }
    }

    /// Removes and returns the operand of a repetition: the last character or part.
    fn take_last(&mut self) -> Option<Part> {
        if let Some(c) = self.text.pop() {
            return Some(Part::leaf(Hir::literal(String::from(c).into_bytes())));
        }
        self.last.pop()
    }

    fn end_alternative(&mut self) -> Result<(), String> {
        self.end_text();
        let whole = Part::joined(std::mem::take(&mut self.last), Hir::concat)?;
        self.before.push(whole);
        Ok(())
    }

    fn finished(mut self) -> Result<Part, String> {
        self.end_alternative()?;
        Part::joined(self.before, Hir::alternation)
    }
}

struct Parser<'a> {
    rest: &'a str,
    flags: Flags,
    /// The enclosing groups of the current group.
    open: Vec<Group>,
    group: Group,
    /// The number of ranges in all classes so far.
    ranges: usize,
}

impl<'a> Parser<'a> {
    /// Parses one item, which begins with `c`. `repeated` is the previous item, if that is a repetition operator (`*`, `+`, …). Returns
    /// this item, if it is a repetition operator.
    fn item(&mut self, c: char, repeated: Option<&'a str>) -> Result<Option<&'a str>, String> {
        match c {
            '(' => self.begin_group()?,
            ')' => self.end_group()?,
            '|' => {
                self.skip(1);
                self.group.end_alternative()?;
            }
            '^' => self.one(Hir::look(if self.flags.lines { Look::StartLF } else { Look::Start })),
            '$' => self.one(Hir::look(if self.flags.lines { Look::EndLF } else { Look::End })),
            '.' => self.one(if self.flags.dot_is_all {
                Hir::dot(regex_syntax::hir::Dot::AnyChar)
            } else {
                Hir::dot(regex_syntax::hir::Dot::AnyCharExceptLF)
            }),
            '[' => {
                let class = self.bracketed()?;
                self.push(Hir::class(Class::Unicode(class)));
            }
            '\\' => self.escaped()?,
            '*' | '+' | '?' | '{' => return self.repetition(repeated),
            c => {
                self.skip(c.len_utf8());
                self.literal(c);
            }
        }
        Ok(None)
    }

    /// Skips some bytes, which must be whole characters.
    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    /// Consumes and returns the next character.
    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.skip(c.len_utf8());
        Some(c)
    }

    /// Consumes a string, if it is next. Returns whether it was.
    fn takes(&mut self, text: &str) -> bool {
        let after = self.rest.strip_prefix(text);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn push(&mut self, hir: Hir) {
        self.group.end_text();
        self.group.last.push(Part::leaf(hir));
    }

    /// Skips one byte, and adds a part.
    fn one(&mut self, hir: Hir) {
        self.skip(1);
        self.push(hir);
    }

    /// Adds a literal character.
    fn literal(&mut self, c: char) {
        if self.flags.folds {
            let class = class::folded(class::of(c, c));
            if class.ranges().iter().map(|range| range.len()).sum::<usize>() > 1 {
                return self.push(Hir::class(Class::Unicode(class)));
            }
        }
        self.group.text.push(c);
    }

    /// Adds the ranges of a class to the total, and checks the limit.
    fn count(&mut self, class: ClassUnicode) -> Result<ClassUnicode, String> {
        self.ranges += class.ranges().len();
        if self.ranges > RANGES {
            return Err("its classes are too large".to_owned());
        }
        Ok(class)
    }

    /// Parses an item that begins with a backslash, outside brackets.
    fn escaped(&mut self) -> Result<(), String> {
        for (text, look) in [
            ("\\b", Look::WordAscii),
            ("\\B", Look::WordAsciiNegate),
            ("\\A", Look::Start),
            ("\\z", Look::End),
        ] {
            if self.takes(text) {
                self.push(Hir::look(look));
                return Ok(());
            }
        }
        if self.takes("\\C") {
            self.push(Hir::class(Class::Bytes(ClassBytes::new([ClassBytesRange::new(0, 255)]))));
        } else if self.takes("\\Q") {
            let (text, after) = self.rest.split_once("\\E").unwrap_or((self.rest, ""));
            text.chars().for_each(|c| self.literal(c));
            self.rest = after;
        } else if let Some(class) = self.class_of_escape()? {
            self.push(Hir::class(Class::Unicode(class)));
        } else {
            match self.escaped_char()? {
                Some(c) => self.literal(c),
                None => self.push(Hir::fail()),
            }
        }
        Ok(())
    }

    fn begin_group(&mut self) -> Result<(), String> {
        if !self.rest.starts_with("(?") {
            self.skip(1);
            self.open_group();
            return Ok(());
        }
        let all = self.rest;
        let looks = ["(?=", "(?!", "(?<=", "(?<!"].into_iter().find(|look| all.starts_with(look));
        if let Some(look) = looks {
            return Err(format!("`{look}` is not served"));
        }
        if self.takes("(?P<") || self.takes("(?<") {
            let Some((_, after)) = self.rest.split_once('>').filter(|(name, _)| groups::is_name(name)) else {
                return Err(format!("`{}` names no group", groups::shown(all)));
            };
            self.rest = after;
            self.open_group();
            return Ok(());
        }
        self.flags()
    }

    /// Parses `(?flags)` or `(?flags:`.
    fn flags(&mut self) -> Result<(), String> {
        let all = self.rest;
        let wrong = || format!("`{}` sets no flags", groups::shown(all));
        self.skip(2);
        let (mut flags, mut on, mut is_complete) = (self.flags, true, true);
        loop {
            match self.next().ok_or_else(wrong)? {
                'i' => flags.folds = on,
                'm' => flags.lines = on,
                's' => flags.dot_is_all = on,
                'U' => {}
                '-' if on => {
                    (on, is_complete) = (false, false);
                    continue;
                }
                end @ (':' | ')') if is_complete => {
                    if end == ':' {
                        self.open_group();
                    }
                    self.flags = flags;
                    return Ok(());
                }
                _ => return Err(wrong()),
            }
            is_complete = true;
        }
    }

    fn open_group(&mut self) {
        let group = Group { outer: self.flags, ..Group::default() };
        self.open.push(std::mem::replace(&mut self.group, group));
    }

    fn end_group(&mut self) -> Result<(), String> {
        self.skip(1);
        let Some(around) = self.open.pop() else {
            return Err("a `)` closes no group".to_owned());
        };
        let group = std::mem::replace(&mut self.group, around);
        self.flags = group.outer;
        let part = group.finished()?;
        self.group.end_text();
        self.group.last.push(part);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
