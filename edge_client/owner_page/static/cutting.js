// Recordings as phones make them: this browser decodes them, and a long one is cut into the sounds in it.

// Of a file that is decoded here; an hour of a phone's voice memo.
const LARGEST = 64 * 2 ** 20;
// Takes of one recording.
const MOST = 50;
// A sound stands out from the room by so much, and reaches as far as it is that far below the loudest moment, dB.
const ABOVE_ROOM = 10;
const BELOW_PEAK = 30;
// Levels are those of frames, s; shorter sounds are clicks, and a shorter pause belongs to its sound.
const FRAME = 0.01;
const SHORTEST = 0.05;
const PAUSE = 0.3;
const MARGIN = 0.1;

// Return the mean of a file's channels at a rate, or null where this browser cannot decode it.
export async function decode(file, rate) {
  if (file.size > LARGEST) return null;
  try {
    const found = await new OfflineAudioContext(1, 1, rate).decodeAudioData(await file.arrayBuffer());
    const mixed = new Float32Array(found.length);
    for (let channel = 0; channel < found.numberOfChannels; channel += 1) {
      found.getChannelData(channel).forEach((sample, index) => (mixed[index] += sample / found.numberOfChannels));
    }
    return mixed;
  } catch {
    return null;
  }
}

function levels(samples, rate) {
  const size = Math.round(FRAME * rate);
  return Float32Array.from({ length: Math.floor(samples.length / size) }, (_, frame) => {
    const part = samples.subarray(frame * size, (frame + 1) * size);
    const mean = part.reduce((sum, sample) => sum + sample, 0) / size;
    const power = part.reduce((sum, sample) => sum + (sample - mean) ** 2, 0) / size;
    return 10 * Math.log10(Math.max(power, 1e-12));
  });
}

// Return where the sounds of a recording begin and end, in frames.
function sounds(samples, rate) {
  const found = levels(samples, rate);
  const sorted = Float32Array.from(found).sort();
  const room = sorted[Math.floor(sorted.length / 5)];
  const least = Math.max(room + ABOVE_ROOM, sorted[sorted.length - 1] - BELOW_PEAK);
  const runs = [];
  found.forEach((level, frame) => {
    if (level < least) return;
    const last = runs[runs.length - 1];
    if (last && (frame - last[1]) * FRAME < PAUSE) last[1] = frame + 1;
    else runs.push([frame, frame + 1]);
  });
  return runs.filter(([begin, end]) => (end - begin) * FRAME >= SHORTEST);
}

// Return the takes of a recording, each with the room around it up to a clip's length: arrays of samples, from when, s.
export function cut(samples, rate, clipSeconds) {
  const runs = sounds(samples, rate);
  if (runs.length < 2 || samples.length < 2 * clipSeconds * rate) return [{ samples, from: 0 }];
  const clip = clipSeconds / FRAME;
  const last = samples.length / rate / FRAME;
  return runs.slice(0, MOST).map(([begin, end], index) => {
    // No further than half the way to the sounds beside it.
    const before = index ? (runs[index - 1][1] + begin) / 2 : 0;
    const behind = index + 1 < runs.length ? (end + runs[index + 1][0]) / 2 : last;
    const room = Math.max(MARGIN / FRAME, (clip - (end - begin)) / 2);
    const first = Math.max(before, begin - room);
    const until = Math.min(behind, Math.max(end + room, first + clip));
    const [from, to] = [first, until].map((frame) => Math.round(frame * FRAME * rate));
    return { samples: samples.subarray(from, to), from: from / rate };
  });
}

// Return samples as a WAV file of 16 bits.
export function wave(samples, rate) {
  const data = new DataView(new ArrayBuffer(44 + 2 * samples.length));
  const words = (at, text) => [...text].forEach((letter, index) => data.setUint8(at + index, letter.charCodeAt(0)));
  words(0, "RIFF");
  data.setUint32(4, 36 + 2 * samples.length, true);
  words(8, "WAVEfmt ");
  data.setUint32(16, 16, true);
  data.setUint16(20, 1, true);
  data.setUint16(22, 1, true);
  data.setUint32(24, rate, true);
  data.setUint32(28, 2 * rate, true);
  data.setUint16(32, 2, true);
  data.setUint16(34, 16, true);
  words(36, "data");
  data.setUint32(40, 2 * samples.length, true);
  samples.forEach((sample, index) => data.setInt16(44 + 2 * index, Math.max(-1, Math.min(1, sample)) * 32767, true));
  return new Blob([data], { type: "audio/wav" });
}
