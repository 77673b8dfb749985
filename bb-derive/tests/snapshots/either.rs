#[bb(delegate)]
pub enum Any {
    Fast(Cpu),
    Plain(reference::Reference),
}
