#[bb(delegate = inner, extensions(Nn))]
struct Checked<B> {
    inner: B,
}
