#[derive(bb::Backend)]
#[bb(instances("cpu-f32" = Cpu<f32>, "cpu-f64" = Cpu<f64>))]
struct Cpu<T>(PhantomData<T>);
