//! Messages as the text that a model was trained on, by the template that comes with it.
//!
//! Templates are strangers' programs: they run for a bounded number of steps, make a bounded text, and keep a bounded amount of memory.

mod growth;

use crate::{Error, clock};
use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, ErrorKind, context};
use serde::{Deserialize, Serialize};
use std::io;

/// The greatest number of steps of a template. A step may keep some ten bytes that nothing else counts.
const FUEL: u64 = 4_000_000;
/// The greatest size of a template, in bytes.
const SOURCE: usize = 1 << 20;
/// The greatest size of what a template makes, in bytes.
const TEXT: usize = 64 << 20;
const NAME: &str = "chat";

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks: `system`, `user` or `assistant`.
    pub role: String,
    /// The text.
    pub content: String,
}

impl Message {
    /// Makes a message.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Message {
        Message { role: role.into(), content: content.into() }
    }
}

/// The template of a model.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    begin: String,
    end: String,
}

impl ChatTemplate {
    /// Compiles a template of Jinja. `begin` and `end` are the texts of the tokens that texts begin and end with.
    ///
    /// # Errors
    ///
    /// [`Error::Template`] if it is no template; [`Error::LongTemplate`].
    ///
    /// # Examples
    ///
    /// ```
    /// use bb_generate::{ChatTemplate, Message};
    /// let source = "{% for m in messages %}<{{ m.role }}>{{ m.content.strip() }}{% endfor %}";
    /// let template = ChatTemplate::new(source, "", "")?;
    /// assert_eq!(template.render(&[Message::new("user", " Hello ")], true)?, "<user>Hello");
    /// # Ok::<(), bb_generate::Error>(())
    /// ```
    pub fn new(source: &str, begin: &str, end: &str) -> Result<ChatTemplate, Error> {
        ChatTemplate::with_clock(source, begin, end, None)
    }

    /// As [`new`](Self::new), with what tells the seconds since 1970 if it is not the system's clock.
    pub(crate) fn with_clock(
        source: &str,
        begin: &str,
        end: &str,
        clock: Option<fn() -> u64>,
    ) -> Result<ChatTemplate, Error> {
        if source.len() > SOURCE {
            return Err(Error::LongTemplate { most: SOURCE });
        }
        let mut environment = Environment::new();
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_fuel(Some(FUEL));
        environment.set_recursion_limit(100);
        environment.add_function("raise_exception", |text: String| -> Result<Value, minijinja::Error> {
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, text))
        });
        if let Some(now) = clock.or(clock::SYSTEM) {
            environment.add_function("strftime_now", move |form: String| formatted(&form, now()));
        }
        environment.add_filter("tojson", to_json);
        environment.add_function("bb_text", growth::text);
        growth::bound(&mut environment);
        let failed = |source| Error::Template { source };
        // Transformers marks what a model said with a block that other programs do not know.
        let source = growth::counted(&without_generation(source)).map_err(failed)?;
        environment.add_template_owned(NAME, source).map_err(failed)?;
        Ok(ChatTemplate { environment, begin: begin.to_owned(), end: end.to_owned() })
    }

    /// Writes messages. `answer` adds what an answer begins with.
    ///
    /// # Errors
    ///
    /// [`Error::Template`] if the template fails, refuses the messages, or takes too long; [`Error::LongTemplate`].
    pub fn render(&self, messages: &[Message], answer: bool) -> Result<String, Error> {
        let failed = |source| Error::Template { source };
        let template = self.environment.get_template(NAME).map_err(failed)?;
        let mut text = Bounded { bytes: Vec::new(), full: false };
        let given = context! {
            messages,
            add_generation_prompt => answer,
            bos_token => self.begin,
            eos_token => self.end,
        };
        match template.render_captured_to(given, &mut text) {
            Ok(_) => String::from_utf8(text.bytes)
                .map_err(|_| Error::Internal { what: "a template wrote no UTF-8" }),
            Err(_) if text.full => Err(Error::LongTemplate { most: TEXT }),
            Err(source) => Err(failed(source)),
        }
    }
}

/// Makes `{% generation %}` and `{% endgeneration %}` a condition that always holds, which leaves spaces as they are.
fn without_generation(source: &str) -> String {
    let mut text = source.to_owned();
    for (name, instead) in [("generation", "if true"), ("endgeneration", "endif")] {
        for left in ["{% ", "{%- "] {
            for right in [" %}", " -%}"] {
                text = text.replace(&format!("{left}{name}{right}"), &format!("{left}{instead}{right}"));
            }
        }
    }
    text
}

/// A text that does not grow beyond its limit.
struct Bounded {
    bytes: Vec<u8>,
    full: bool,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > TEXT {
            self.full = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Python's `json.dumps`: separators with spaces, and no characters escaped for HTML.
fn to_json(value: Value, options: Kwargs) -> Result<Value, minijinja::Error> {
    let indent: Option<usize> = options.get("indent")?;
    let _: Option<bool> = options.get("ensure_ascii")?;
    options.assert_all_used()?;
    let wrong = |error: serde_json::Error| {
        minijinja::Error::new(ErrorKind::BadSerialization, "the value is no JSON").with_source(error)
    };
    let mut bytes = Vec::new();
    match indent {
        Some(indent) => {
            let indent = " ".repeat(indent.min(16));
            let form = serde_json::ser::PrettyFormatter::with_indent(indent.as_bytes());
            value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, form)).map_err(wrong)?;
        }
        None => {
            value
                .serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, Spaced))
                .map_err(wrong)?;
        }
    }
    Ok(Value::from_safe_string(String::from_utf8_lossy(&bytes).into_owned()))
}

/// JSON with a space after each colon and comma.
struct Spaced;

impl serde_json::ser::Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        to.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        to.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        to.write_all(b": ")
    }
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

/// A time in UTC, in the form that Python's `strftime` has.
fn formatted(form: &str, seconds: u64) -> Result<String, minijinja::Error> {
    let days = (seconds / 86_400) as i64;
    let (year, month, day) = date(days);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let month_name = MONTHS.get(month as usize - 1).copied().unwrap_or_default();
    let day_name = DAYS.get((days % 7) as usize).copied().unwrap_or_default();
    let short = |name: &str| name.chars().take(3).collect::<String>();
    let mut text = String::new();
    let mut chars = form.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        text += &match chars.next() {
            Some('Y') => year.to_string(),
            Some('y') => format!("{:02}", year % 100),
            Some('m') => format!("{month:02}"),
            Some('d') => format!("{day:02}"),
            Some('e') => format!("{day:2}"),
            Some('B') => month_name.to_owned(),
            Some('b' | 'h') => short(month_name),
            Some('A') => day_name.to_owned(),
            Some('a') => short(day_name),
            Some('H') => format!("{hour:02}"),
            Some('I') => format!("{:02}", (hour + 11) % 12 + 1),
            Some('p') => (if hour < 12 { "AM" } else { "PM" }).to_owned(),
            Some('M') => format!("{minute:02}"),
            Some('S') => format!("{second:02}"),
            Some('F') => format!("{year}-{month:02}-{day:02}"),
            Some('T') => format!("{hour:02}:{minute:02}:{second:02}"),
            Some('%') => "%".to_owned(),
            other => {
                let text = format!(
                    "`strftime_now` does not know `%{}`",
                    other.map(String::from).unwrap_or_default()
                );
                return Err(minijinja::Error::new(ErrorKind::InvalidOperation, text));
            }
        };
    }
    Ok(text)
}

/// The date of a day since 1970.
///
/// Source: Hinnant: `chrono`-Compatible Low-Level Date Algorithms, `civil_from_days`.
fn date(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests;
