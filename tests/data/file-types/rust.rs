//! Sorts numbers read from standard input.
use std::io::{self, BufRead};

fn main() -> io::Result<()> {
    let mut numbers: Vec<i64> = Vec::new();
    for line in io::stdin().lock().lines() {
        let line = line?;
        if let Ok(number) = line.trim().parse() {
            numbers.push(number);
        }
    }
    numbers.sort_unstable();
    for number in &numbers {
        println!("{number}");
    }
    Ok(())
}
