// What the device knows: clips are played.
import "./common.js";
