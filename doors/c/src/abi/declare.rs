//! The macro that declares a structure in Rust and C, and the functions that generate the C declaration.

/// Removes the brackets and the target of an intra-doc link, because C has no links.
fn unlinked(line: &str) -> String {
    let line = line.trim().replace("[`", "`").replace("bb::", "");
    let target = line.split_once("](Self::").and_then(|(text, rest)| Some((text, rest.split_once(')')?.1)));
    target.map(|(text, rest)| format!("{text}{rest}")).unwrap_or(line)
}

/// Formats documentation as a C comment.
fn comment(indent: &str, lines: &[&str]) -> String {
    let lines: Vec<String> = lines.iter().map(|line| unlinked(line)).collect();
    if let [line] = &lines[..] {
        return format!("{indent}/* {line} */\n");
    }
    let body: Vec<String> = lines
        .iter()
        .map(|line| if line.is_empty() { format!("{indent} *") } else { format!("{indent} * {line}") })
        .collect();
    format!("{indent}/*\n{}\n{indent} */\n", body.join("\n"))
}

/// Formats the C declaration of a structure.
pub(super) fn structure(name: &str, about: &[&str], fields: &[(&[&str], &str)]) -> String {
    let fields: Vec<String> =
        fields.iter().map(|(docs, text)| format!("{}    {text};\n", comment("    ", docs))).collect();
    format!("{}struct {name} {{\n{}}};\n", comment("", about), fields.join("\n"))
}

/// Expands to `#[repr(C)]` structs and to `fn layouts()`.
///
/// A row is `Name = "bb_name" { /// doc  field: type = "declaration in C"; }`.
macro_rules! c_structs {
    ($( $(#[doc = $doc:literal])* $name:ident = $c:literal {
        $( $(#[doc = $fdoc:literal])* $field:ident : $type:ty = $text:literal; )*
    } )*) => {
        $(
            $(#[doc = $doc])*
            #[repr(C)]
            #[derive(Debug, Clone, Copy)]
            pub struct $name { $( $(#[doc = $fdoc])* pub $field: $type, )* }
        )*

        /// Returns the layouts of the structures of this module.
        pub(super) fn layouts() -> Vec<super::Layout> {
            vec![$( super::Layout {
                name: $c,
                size: size_of::<$name>(),
                fields: &[$( (stringify!($field), std::mem::offset_of!($name, $field)) ),*],
                text: || crate::abi::declare::structure(
                    $c,
                    &[$($doc),*],
                    &[$( (&[$($fdoc),*] as &[&str], $text) ),*],
                ),
            } ),*]
        }
    };
}
