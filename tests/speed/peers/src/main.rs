//! Times an ONNX model in tract or rten on request: `speed-peers ENGINE MODEL.onnx SHAPE THREADS`.
//!
//! A program for `irc bench --program`: it says `ready NAME`, and answers a line `run N` with the nanoseconds of N runs.

use rten_tensor::prelude::*;
use std::error::Error;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::Instant;
use tract_onnx::prelude::*;

type Outcome = Result<(), Box<dyn Error>>;

fn serve(name: &str, mut run: impl FnMut() -> Outcome) -> Outcome {
    run()?;
    println!("ready {name}");
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let count = line.split_once(' ').map_or(Ok(1), |(_, count)| count.parse())?;
        let mut times = Vec::new();
        for _ in 0..count {
            let start = Instant::now();
            run()?;
            times.push(start.elapsed().as_nanos().to_string());
        }
        println!("run {}", times.join(" "));
        std::io::stdout().flush()?;
    }
    Ok(())
}

/// tract has no threads.
fn tract(path: &str, shape: &[usize], data: Vec<f32>) -> Outcome {
    let model = tract_onnx::onnx().model_for_path(path)?.into_optimized()?.into_runnable()?;
    let x: Tensor = tract_ndarray::ArrayD::from_shape_vec(shape, data)?.into();
    let x: TValue = x.into();
    serve("tract", || {
        model.run(tvec!(x.clone()))?;
        Ok(())
    })
}

fn rten(path: &str, shape: &[usize], data: Vec<f32>, threads: usize) -> Outcome {
    let model = rten::Model::load_file(path)?;
    let (input, output) = (model.input_ids()[0], model.output_ids()[0]);
    let x = rten_tensor::Tensor::<f32>::from_data(shape, data);
    let pool = Arc::new(rten::ThreadPool::with_num_threads(threads));
    serve("rten", || {
        let options = rten::RunOptions::default().with_thread_pool(Some(pool.clone()));
        model.run(vec![(input, x.view().into())], &[output], Some(options))?;
        Ok(())
    })
}

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [engine, path, shape, threads] = arguments.as_slice() else {
        return Err("usage: speed-peers tract|rten MODEL.onnx SHAPE THREADS".into());
    };
    let shape: Vec<usize> = shape.split(',').map(str::parse).collect::<Result<_, _>>()?;
    let data = (0..shape.iter().product()).map(|i: usize| ((i * 7919 % 1000) as f32) / 500.0 - 1.0).collect();
    match engine.as_str() {
        "tract" => tract(path, &shape, data),
        "rten" => rten(path, &shape, data, threads.parse()?),
        _ => Err("engines are tract and rten".into()),
    }
}
