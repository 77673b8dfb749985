//! Compares matrix products with direct calls of the crates `gemm` and `faer`.
#![expect(unsafe_code, reason = "kernels are called on raw memory")]

use bb_benches::{asked, compare, subject};
use bb_cpu::gemm::{Dims, Strided};

fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 37) % 101) as f32 / 101.0 - 0.5).collect()
}

fn product(m: usize, k: usize, n: usize, transposed: bool) {
    let title = format!("{m}x{k}x{n}{} {}t", if transposed { "T" } else { "" }, rayon::current_num_threads());
    if !asked(&title) {
        return;
    }
    let (a, b) = (numbers(m * k), numbers(k * n));
    let (b_row, b_col) = if transposed { (1, k as isize) } else { (n as isize, 1) };
    let mut c = [vec![0f32; m * n], vec![0f32; m * n], vec![0f32; m * n]];
    let [c0, c1, c2] = &mut c;
    let threads = rayon::current_num_threads();
    let mut ours = || {
        let x = Strided::dense(a.as_ptr(), k);
        let y = Strided { ptr: b.as_ptr(), row: b_row, col: b_col };
        // SAFETY: the vectors have these extents.
        unsafe { bb_cpu::gemm::gemm(Dims { m, k, n }, c0.as_mut_ptr(), n, x, y) }
    };
    let parallel = if threads > 1 { gemm::Parallelism::Rayon(threads) } else { gemm::Parallelism::None };
    let mut theirs = || {
        // SAFETY: the vectors have these extents.
        unsafe {
            gemm::gemm(
                m,
                n,
                k,
                c1.as_mut_ptr(),
                1,
                n as isize,
                false,
                a.as_ptr(),
                1,
                k as isize,
                b.as_ptr(),
                b_col,
                b_row,
                0.0,
                1.0,
                false,
                false,
                false,
                parallel,
            );
        }
    };
    let mut faer = || {
        use faer::mat::{MatMut, MatRef};
        let par = if threads > 1 { faer::Par::rayon(threads) } else { faer::Par::Seq };
        let x = MatRef::from_row_major_slice(&a, m, k);
        let y = if transposed {
            MatRef::from_column_major_slice(&b, k, n)
        } else {
            MatRef::from_row_major_slice(&b, k, n)
        };
        let z = MatMut::from_row_major_slice_mut(c2, m, n);
        faer::linalg::matmul::matmul(z, faer::Accum::Replace, x, y, 1.0, par);
    };
    compare(&title, vec![subject("bb", &mut ours), subject("gemm", &mut theirs), subject("faer", &mut faer)]);
}

fn main() {
    for threads in [1, 2] {
        let Ok(pool) = rayon::ThreadPoolBuilder::new().num_threads(threads).build() else { continue };
        pool.install(|| {
            for transposed in [false, true] {
                for [m, k, n] in [
                    [64, 64, 64],
                    [256, 256, 256],
                    [1024, 1024, 1024],
                    [4, 4, 4],
                    [16, 16, 16],
                    [32, 32, 32],
                    [128, 128, 128],
                    [1, 1024, 1024],
                    [1024, 1024, 1],
                    [8, 512, 512],
                    [1000, 3, 1000],
                    [64, 16, 64],
                ] {
                    product(m, k, n, transposed);
                }
            }
        });
    }
}
