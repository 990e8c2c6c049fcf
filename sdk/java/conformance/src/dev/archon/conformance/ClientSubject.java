package dev.archon.conformance;

final class ClientSubject {
  private ClientSubject() {}

  static int run() {
    return 2;
  }
}
