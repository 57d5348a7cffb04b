//! Checks the schedule given as the argument and prints what there is to say.
fn main() {
    for text in std::env::args().skip(1) {
        match ptx_gemm_dsl::Schedule::parse(&text).and_then(|schedule| schedule.check()) {
            Ok(notes) => println!("fine\n{notes}{}", ptx_gemm_dsl::Schedule::parse(&text).unwrap().plan(None).unwrap()),
            Err(errors) => println!("{errors}"),
        }
    }
}
