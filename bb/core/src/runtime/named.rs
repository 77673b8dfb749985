//! Parses names of backends with options: `gpu:1`, `chip(tile=64, memory=1073741824)`, `gpu:1(narrow_floats)`.
//!
//! So every interface that takes the name of a backend also takes its options: the command line, Python and the
//! service.

use super::OpenOptions;
use crate::{Error, OpenOption};
use bb_ir::text::{BOOL_FORM, parse_bool};
use std::num::NonZeroUsize;

/// Splits a name into the name of the backend and all its options, including `options`.
///
/// # Errors
///
/// The error of [`check_parentheses`]; [`Error::OptionForm`] if an option is not `NAME=VALUE`; [`Error::OptionValue`];
/// [`Error::TwoDevices`] and [`Error::OptionTwice`] if the name and `options` set the same option.
pub(super) fn split<'a>(name: &'a str, options: &OpenOptions) -> Result<(&'a str, OpenOptions), Error> {
    let mut all = options.clone();
    check_parentheses(name)?;
    let (place, given) = parts(name);
    if let Some(given) = given {
        let mut seen: Vec<&str> = Vec::new();
        for entry in given.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let (key, value) =
                entry.split_once('=').map_or((entry, None), |(k, v)| (k.trim(), Some(v.trim())));
            if seen.contains(&key) {
                return Err(Error::OptionTwice { name: name.to_owned(), option: key.to_owned() });
            }
            seen.push(key);
            set(&mut all, name, key, value)?;
        }
    }
    let Some((backend, device)) = place.split_once(':') else { return Ok((place, all)) };
    match &all.device {
        Some(other) if other != device => {
            Err(Error::TwoDevices { name: name.to_owned(), other: other.clone() })
        }
        _ => Ok((backend, all.with_device(device))),
    }
}

/// Checks that the parentheses of a name are balanced.
///
/// # Errors
///
/// [`Error::Parentheses`].
pub(super) fn check_parentheses(name: &str) -> Result<(), Error> {
    let wrong = |at| Err(Error::Parentheses { name: name.to_owned(), at });
    let mut open: Vec<usize> = Vec::new();
    for (at, c) in (1..).zip(name.chars()) {
        match c {
            '(' => open.push(at),
            ')' => match open.pop() {
                Some(_) => {}
                None => return wrong(at),
            },
            _ => {}
        }
    }
    open.last().map_or(Ok(()), |&at| wrong(at))
}

/// Returns a name without its options, and the text of the options.
fn parts(name: &str) -> (&str, Option<&str>) {
    match name.strip_suffix(')').and_then(|open| open.split_once('(')) {
        Some((place, given)) => (place, Some(given)),
        None => (name, None),
    }
}

/// Splits a name at each `+` outside parentheses. Returns the layers, outermost first, and then the backend below them.
pub(super) fn stack(name: &str) -> Vec<&str> {
    outside(name, '+').map(str::trim).collect()
}

/// Returns a name without the white space between its parts: `half(which=left)+cpu` for `half( which = left ) + cpu`.
pub(super) fn tidy(name: &str) -> String {
    let entry = |entry: &str| match entry.split_once('=') {
        Some((key, value)) => format!("{}={}", key.trim(), value.trim()),
        None => entry.to_owned(),
    };
    let part = |part: &str| match parts(part) {
        (place, Some(given)) => {
            let entries = given.split(',').map(str::trim).filter(|entry| !entry.is_empty());
            format!("{place}({})", entries.map(entry).collect::<Vec<_>>().join(","))
        }
        (place, None) => place.to_owned(),
    };
    stack(name).into_iter().map(part).collect::<Vec<_>>().join("+")
}

/// Returns the name of a backend or a layer with a device and options: `gpu:1(threads=2,tile=64)`.
pub(super) fn spelled(name: &str, options: &OpenOptions) -> String {
    let place = options.device.as_ref().map_or_else(|| name.to_owned(), |device| format!("{name}:{device}"));
    let floats = options.narrow_floats.then(|| OpenOption::NarrowFloats.name().to_owned());
    let valued = options.texts().into_iter().filter(|(option, _)| option != OpenOption::Device.name());
    let entries: Vec<String> =
        valued.map(|(option, value)| format!("{option}={value}")).chain(floats).collect();
    if entries.is_empty() { place } else { format!("{place}({})", entries.join(",")) }
}

/// Splits a string at a character, but only outside parentheses.
fn outside(text: &str, at: char) -> impl Iterator<Item = &str> {
    let mut depth = 0usize;
    text.split(move |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == at && depth == 0
    })
}

/// Returns the nesting depth of the parentheses.
pub(super) fn depth(name: &str) -> usize {
    let (mut depth, mut most) = (0usize, 0);
    for c in name.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        most = most.max(depth);
    }
    most
}

/// Splits the entries in the parentheses of a name into names of backends and pairs of name and value.
pub(super) fn members(name: &str) -> (Vec<&str>, Vec<(&str, &str)>) {
    let (mut backends, mut entries) = (Vec::new(), Vec::new());
    let given = parts(name).1.unwrap_or_default();
    for entry in outside(given, ',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let key = outside(entry, '=').next().unwrap_or_default();
        match entry.get(key.len()..).and_then(|rest| rest.strip_prefix('=')) {
            Some(value) => entries.push((key.trim(), value.trim())),
            None => backends.push(entry),
        }
    }
    (backends, entries)
}

/// Returns the name of the backend, without a device or options.
pub(super) fn backend_of(name: &str) -> &str {
    let place = parts(name).0;
    place.split(':').next().unwrap_or(place)
}

/// Returns whether a backend may have this name: it is not empty, and has no white space and no character with a
/// special meaning in names.
pub(super) fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| !c.is_whitespace() && !c.is_control() && !MARKS.contains(c))
}

/// The characters that separate the parts of a name.
const MARKS: &str = ":+(),=";

/// Returns whether a name contains the name of a backend. An option whose value equals the backend's name counts too.
pub(super) fn mentions(name: &str, backend: &str) -> bool {
    name.split(|c| MARKS.contains(c)).any(|part| part.trim() == backend)
}

impl OpenOptions {
    /// Returns the options with an option whose value is a text, as in a backend's name: `("threads", "2")`, `("memory", "1G")`,
    /// `("tile", "64")`.
    ///
    /// # Errors
    ///
    /// [`Error::OptionValue`] if `threads`, `memory` or `narrow_floats` cannot have the value; [`Error::OptionTwice`] and
    /// [`Error::TwoDevices`] if the option has another value already.
    pub fn with_text(mut self, name: &str, value: &str) -> Result<OpenOptions, Error> {
        set(&mut self, "", name, Some(value))?;
        Ok(self)
    }
}

/// Sets an option by its name. `name` is what errors call the place where it stands.
fn set(all: &mut OpenOptions, name: &str, key: &str, value: Option<&str>) -> Result<(), Error> {
    let wrong = |expected| Error::OptionValue {
        option: key.to_owned(),
        expected,
        got: value.unwrap_or_default().to_owned(),
    };
    let twice = |differs: bool| match differs {
        true => Err(Error::OptionTwice { name: name.to_owned(), option: key.to_owned() }),
        false => Ok(()),
    };
    let known = [OpenOption::Device, OpenOption::Threads, OpenOption::Memory, OpenOption::NarrowFloats];
    let value = match (known.into_iter().find(|option| option.name() == key), value) {
        (Some(OpenOption::NarrowFloats), None) => "true",
        (_, Some(value)) if !key.is_empty() => value,
        _ => {
            let nearest = bb_ir::nearest(key, [OpenOption::NarrowFloats.name()]).map(str::to_owned);
            return Err(Error::OptionForm { name: name.to_owned(), entry: key.to_owned(), nearest });
        }
    };
    match known.into_iter().find(|option| option.name() == key) {
        Some(OpenOption::Device) => {
            if let Some(other) = all.device.as_ref().filter(|other| *other != value) {
                return Err(Error::TwoDevices { name: name.to_owned(), other: other.clone() });
            }
            all.device = Some(value.to_owned());
        }
        Some(OpenOption::Threads) => {
            let threads: NonZeroUsize =
                value.parse().map_err(|_| wrong("a number of threads, at least 1"))?;
            twice(all.threads.is_some_and(|other| other != threads))?;
            all.threads = Some(threads);
        }
        Some(OpenOption::Memory) => {
            let bytes = bb_ir::parse_bytes(value).and_then(|bytes| u64::try_from(bytes).ok());
            let bytes = bytes.ok_or_else(|| wrong(bb_ir::BYTES_FORM))?;
            twice(all.memory.is_some_and(|other| other != bytes))?;
            all.memory = Some(bytes);
        }
        Some(OpenOption::NarrowFloats) => {
            let floats = parse_bool(value).ok_or_else(|| wrong(BOOL_FORM))?;
            twice(all.narrow_floats && !floats)?;
            all.narrow_floats = floats;
        }
        Some(OpenOption::Own(_)) | None => {
            twice(all.own.get(key).is_some_and(|other| other != value))?;
            all.own.insert(key.to_owned(), value.to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn of(name: &str) -> Result<(String, OpenOptions), Error> {
        split(name, &OpenOptions::default()).map(|(backend, options)| (backend.to_owned(), options))
    }

    #[test]
    fn a_name_holds_a_device_and_options() {
        let tile = OpenOptions::default().with_own("tile", 64);
        assert_eq!(of("chip(tile=64)").unwrap(), ("chip".to_owned(), tile.clone()));
        assert_eq!(of("chip:1( tile = 64 , )").unwrap(), ("chip".to_owned(), tile.with_device("1")));
        let all = of("chip(device=a, threads=3, memory=9, narrow_floats, about=x=y)").unwrap().1;
        let threads = NonZeroUsize::new(3).unwrap();
        let expected = OpenOptions::default().with_device("a").with_threads(threads).with_memory(9);
        assert_eq!(all, expected.with_narrow_floats().with_own("about", "x=y"));
        assert_eq!(of("chip()").unwrap(), ("chip".to_owned(), OpenOptions::default()));
        assert_eq!((backend_of("chip:1(tile=2)"), backend_of("chip(a:b=1)")), ("chip", "chip"));
    }

    #[test]
    fn a_name_holds_other_names() {
        let (backends, entries) =
            members("first_of(gpu:1, limit(memory=1G)+cpu, first_of(a,b), Softmax = cpu)");
        assert_eq!(backends, ["gpu:1", "limit(memory=1G)+cpu", "first_of(a,b)"]);
        assert_eq!(entries, [("Softmax", "cpu")]);
        assert_eq!(members("first_of"), (vec![], vec![]));
    }

    #[test]
    fn white_space_between_the_parts_of_a_name_makes_no_difference() {
        let names = ["half( which = left , )+cpu(threads=1)", " half(which=left)  + cpu( threads=1 ) "];
        assert_eq!(names.map(tidy), ["half(which=left)+cpu(threads=1)"; 2]);
        assert_eq!(tidy("first_of(gpu, half(most=2)+cpu)"), "first_of(gpu,half(most=2)+cpu)");
        // White space in a value is part of the value.
        assert_eq!(tidy("record( to = my file + 2 )+cpu"), "record(to=my file + 2)+cpu");
    }

    #[test]
    fn a_name_mentions_what_it_is_made_of() {
        assert!(mentions("metrics+limit(memory=1G)+first_of(mine:1, cpu)", "mine"));
        assert!(!mentions("first_of(mine2, cpu)", "mine") && !mentions("cpu", "mine"));
        assert!(is_plain("numpy-example_2") && is_plain("é"));
        for name in ["", "a b", "a+b", "a(b)", "a:1", "a=b", "a,b", "\n"] {
            assert!(!is_plain(name), "{name:?}");
        }
    }

    #[test]
    fn what_is_no_option_or_given_twice_is_refused() {
        assert!(matches!(of("chip(tile=3"), Err(Error::Parentheses { at: 5, .. })));
        assert!(matches!(of("chip tile=3)"), Err(Error::Parentheses { at: 12, .. })));
        assert!(matches!(of("chip)tile=3("), Err(Error::Parentheses { at: 5, .. })));
        assert!(matches!(of("chip(tile)"), Err(Error::OptionForm { .. })));
        assert!(matches!(of("chip(=3)"), Err(Error::OptionForm { .. })));
        assert!(matches!(of("chip(threads=0)"), Err(Error::OptionValue { .. })));
        assert!(matches!(of("chip(narrow_floats=perhaps)"), Err(Error::OptionValue { .. })));
        for value in ["true", "True", "1"] {
            let options = of(&format!("chip(narrow_floats={value})")).unwrap().1;
            assert_eq!(options, OpenOptions::default().with_narrow_floats());
        }
        assert_eq!(of("chip(narrow_floats=0)").unwrap().1, OpenOptions::default());
        assert!(matches!(of("chip(tile=1, tile=1)"), Err(Error::OptionTwice { .. })));
        assert!(matches!(of("chip:1(device=2)"), Err(Error::TwoDevices { .. })));
        let given = OpenOptions::default().with_own("tile", 1);
        assert!(matches!(split("chip(tile=2)", &given), Err(Error::OptionTwice { .. })));
    }
}
