//! Other forms than `bb::register_layer!` has.

struct Quiet;

mod nothing {
    bb::register_layer!();
}

mod name_before {
    bb::register_layer!("quiet", super::Quiet);
}

mod name_behind {
    bb::register_layer!(super::Quiet, "quiet");
}

mod equals {
    bb::register_layer!(quiet = super::Quiet);
}

fn main() {}
