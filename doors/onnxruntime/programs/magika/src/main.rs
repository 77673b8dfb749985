//! Identifies files with Google's crate `magika`, on bb, or on the library in `ORT_DYLIB_PATH` if it is set.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::var_os("ORT_DYLIB_PATH").is_none() {
        // SAFETY: the function takes the structure of the crate.
        assert!(
            ort::set_api(unsafe { bb_onnxruntime::api_as() }),
            "bb is chosen before anything else is called"
        );
    }
    let mut magika = magika::Builder::default().with_intra_threads(1).build()?;
    for file in std::env::args().skip(1) {
        let found = magika.identify_file_sync(&file)?;
        println!("{file}: {} {:.2}", found.info().label, found.score());
    }
    Ok(())
}
