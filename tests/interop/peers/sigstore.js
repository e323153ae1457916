// Asks @sigstore/verify, as JSON on standard input, about inclusion proofs and a checkpoint.
'use strict';
const crypto = require('crypto');
const fs = require('fs');
const path = require('path');

const modules = process.env.NODE_PATH;
const tlog = path.join(modules, '@sigstore', 'verify', 'dist', 'tlog');
const { verifyMerkleInclusion } = require(path.join(tlog, 'merkle.js'));
const { verifyCheckpoint, LogCheckpoint } = require(path.join(tlog, 'checkpoint.js'));

const hex = (text) => Buffer.from(text, 'hex');
const attempt = (work) => {
  try {
    work();
    return 'accepted';
  } catch (error) {
    if (error.name === 'VerificationError' || error.code === 'TLOG_INCLUSION_PROOF_ERROR') return error.message;
    throw error;
  }
};

const question = JSON.parse(fs.readFileSync(0, 'utf8'));
const ed25519 = Buffer.concat([hex('302a300506032b6570032100'), hex(question.publicKey)]);
const log = {
  logID: Buffer.concat([hex(question.keyID), Buffer.alloc(28)]),
  baseURL: question.origin,
  publicKey: crypto.createPublicKey({ key: ed25519, format: 'der', type: 'spki' }),
};

const checkpoint = LogCheckpoint.fromString(question.note);
const answer = {
  origin: checkpoint.origin,
  size: checkpoint.logSize.toString(),
  root: checkpoint.logHash.toString('hex'),
  checkpoint: attempt(() => verifyCheckpoint(
    { inclusionProof: { checkpoint: { envelope: question.note } } }, [log])),
  inclusions: question.inclusions.map(({ index, leaf, proof }) => attempt(() => verifyMerkleInclusion(
    { canonicalizedBody: hex(leaf), inclusionProof: { logIndex: String(index), hashes: proof.map(hex) } },
    checkpoint))),
};
process.stdout.write(JSON.stringify(answer));
