//! A backend with options of its own, given by name string and by [`OpenOptions`].
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::TensorData;
use bb::{Backend, DataType, DataTypes, Error, OpenOption, OpenOptions, OptionDefault, Registry};
use bb_reference::{Reference, Tensor};
use bb_tests::on_reference::by_reference;

/// A chip whose driver takes five settings.
#[derive(Debug, bb::Backend)]
#[bb(
    name = "tiled",
    open = Tiled::open,
    options(
        memory,
        tile: u64 = 64 * 2 => "rows and columns of a tile",
        offset: i64 = -1 => "where tiles begin",
        fast: bool = false => "whether to skip checks",
        scale: f64 = 0.5 => "the factor of quantised sums",
        kernel: str = "auto" => "the name of the kernel"
    )
)]
struct Tiled {
    tile: usize,
    offset: i64,
    fast: bool,
    scale: f64,
    kernel: String,
    memory: Option<u64>,
}

impl Tiled {
    fn open(options: &OpenOptions) -> Result<Tiled, Error> {
        Ok(Tiled {
            tile: options.own("tile")?,
            offset: options.own("offset")?,
            fast: options.own("fast")?,
            scale: options.own("scale")?,
            kernel: options.own("kernel")?,
            memory: options.memory,
        })
    }
}

impl Backend for Tiled {
    type Tensor = Tensor;
    type Error = bb_reference::Error;

    bb::forward_to_call!(by_reference);

    fn to_host(&self, x: &Tensor) -> Result<TensorData, bb_reference::Error> {
        Reference.to_host(x)
    }

    fn types(&self) -> DataTypes {
        DataTypes::of(&[DataType::F32, DataType::I32, DataType::Bool])
    }
}

fn registry() -> Registry {
    Registry::builder().declared::<Tiled>().declared::<Reference>().build()
}

fn refused(name: &str) -> String {
    registry().backend(name).unwrap_err().to_string()
}

#[test]
fn options_that_nobody_gives_have_their_defaults() {
    let on = registry().backend("tiled").unwrap();
    let tiled = on.typed::<Tiled>().unwrap();
    assert_eq!((tiled.tile, tiled.offset, tiled.fast, tiled.memory), (128, -1, false, None));
    assert_eq!((tiled.scale, tiled.kernel.as_str()), (0.5, "auto"));
}

#[test]
fn a_name_gives_options_and_so_does_code() {
    let registry = registry();
    let on =
        registry.backend("tiled(tile=32, offset=-7, fast=true, scale=2, kernel=wide, memory=4096)").unwrap();
    let tiled = on.typed::<Tiled>().unwrap();
    assert_eq!((tiled.tile, tiled.offset, tiled.fast, tiled.memory), (32, -7, true, Some(4096)));
    assert_eq!((tiled.scale, tiled.kernel.as_str()), (2.0, "wide"));
    let options = OpenOptions::default().with_own("tile", 32).with_own("fast", true);
    let other = registry.backend_with("tiled", &options).unwrap();
    assert_eq!(other.typed::<Tiled>().unwrap().tile, 32);
    // Those who ask for the same share an instance, whether they write the default or not.
    let same = registry.backend("tiled(fast=true,tile=032)").unwrap();
    assert_eq!(same.owner(), other.owner());
    assert_eq!(
        registry.backend("tiled(tile=128)").unwrap().owner(),
        registry.backend("tiled").unwrap().owner()
    );
    assert_ne!(other.owner(), on.owner());
}

#[test]
fn an_unknown_or_mistyped_option_is_refused_with_the_nearest_name() {
    let floats = "`narrow_floats` if it lacks a float type";
    let known = format!("there are `memory`, `tile`, `offset`, `fast`, `scale`, `kernel`, and {floats}");
    assert_eq!(
        refused("tiled(tiel=3)"),
        format!("backend `tiled` has no option `tiel` (did you mean `tile`?); {known}")
    );
    assert_eq!(refused("tiled(xyz=3)"), format!("backend `tiled` has no option `xyz`; {known}"));
    assert_eq!(
        refused("reference(tile=3)"),
        format!("backend `reference` has no option `tile`; it has no options of its own, only {floats}")
    );
    assert_eq!(refused("tiled(tile=-3)"), "the option `tile` is `-3`; expected a whole number, at least 0");
    assert_eq!(
        refused("tiled(fast=yes)"),
        "the option `fast` is `yes`; expected `true`, `false`, `1` or `0`"
    );
    assert_eq!(refused("tiled(scale=nan)"), "the option `scale` is `nan`; expected a number");
    assert_eq!(
        refused("tiled(tile)"),
        "`tile` in `tiled(tile)` is no option; write `NAME=VALUE`, as in `chip(tile=64)`"
    );
    assert_eq!(
        refused("tiled(tile=1,tile=2)"),
        "the option `tile` is given twice for `tiled(tile=1,tile=2)`: leave out one"
    );
    assert!(refused("tild(tile=1)").contains("did you mean `tiled`?"));
    // A value that the declared type has, but not the type that the constructor reads.
    let error = OpenOptions::default().with_own("tile", 300).own::<u8>("tile").unwrap_err();
    assert_eq!(error.to_string(), "the option `tile` is `300`; expected u8");
}

#[test]
fn declarations_are_listed() {
    let listed = registry().backends().unwrap();
    let tiled = listed.iter().find(|backend| backend.name == "tiled").unwrap();
    let own: Vec<_> = tiled.options.iter().filter_map(|option| option.own()).collect();
    let tile = own.first().unwrap();
    assert_eq!(
        (tile.name, tile.default, tile.about),
        ("tile", OptionDefault::Count(128), "rows and columns of a tile")
    );
    assert_eq!(tiled.options.first(), Some(&OpenOption::Memory));
    let types: Vec<_> = own.iter().map(|own| own.default.type_name()).collect();
    assert_eq!(types, ["u64", "i64", "bool", "f64", "str"]);
}

/// ONNX models of doubles: a user may accept that they are rounded.
#[test]
fn narrow_floats_is_an_option_in_a_name() {
    let registry = registry();
    let strict = registry.backend("tiled").unwrap();
    let x = strict.tensor(&[1], &[2f64]).unwrap();
    assert!(x.exp().unwrap_err().to_string().contains("tiled"));
    let rounded = registry.backend("tiled(narrow_floats)").unwrap();
    let y = rounded.tensor(&[1], &[2f64]).unwrap().exp().unwrap().to_host(64).unwrap();
    assert!((y.as_slice::<f64>().unwrap().first().unwrap() - 2f64.exp()).abs() < 1e-6);
    assert_eq!(
        registry.backend("reference(narrow_floats)").unwrap_err().to_string(),
        "backend `reference` does not take the option `narrow_floats`; it takes none"
    );
}
