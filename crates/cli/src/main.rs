//! The one binary of inspan.

fn main() {}
