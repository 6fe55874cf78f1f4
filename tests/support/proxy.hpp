// SPDX-License-Identifier: Apache-2.0
// A TCP proxy in front of a real server, for network faults: delay, silence, dripping bytes, cut
// and refused connections, and a reply that is lost after its request was carried out. One thread,
// poll(2); needs no privileges.
#pragma once
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include "core/clock.hpp"
#include "util/fd.hpp"

namespace dlock::test {

class Proxy {
 public:
  enum Side { to_server = 0, to_client = 1 };

  explicit Proxy(std::uint16_t target);  // 127.0.0.1:target
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  std::uint16_t port() const noexcept { return port_; }

  // Settings from now on, for all connections. Bytes already under way keep their delay.
  void delay(Side, Duration);
  void stall(Side, bool on);                     // no bytes pass; none are lost
  void drip(Side, std::size_t bytes, Duration);  // so many bytes at a time; 0: all
  void refuse(bool on);                          // new connections are closed at once
  void blackhole(bool on);                       // new connections are accepted and never served
  void cut();                                    // resets all connections

  // The next request that contains `text` reaches the server; its reply is dropped. Then the
  // connection is reset, or (`quietly`) stays open without that reply.
  void lose_reply(std::string text, bool quietly = false);
  void keep_replies();  // lose_reply() ends; a reply to a request that has arrived is lost
  bool lost_one(Duration bound = std::chrono::seconds{60});  // waits until that has happened

  // The next request that contains `text` does not reach the server, nor do later bytes of its
  // connection, until let_go(); other connections continue. If the client closes meanwhile, the
  // server's side is closed only after the server has answered it.
  void hold(std::string text);
  bool holds_one(Duration bound = std::chrono::seconds{60});  // waits until one is held
  void let_go();
  // Waits until the server has answered what was let go, or closed that connection: what the late
  // request does is done.
  bool answered(Duration bound = std::chrono::seconds{60});

 private:
  struct Chunk {
    Deadline due;
    std::string bytes;
  };
  struct Link {
    Fd end[2];  // [to_server]: the server's socket, [to_client]: the client's
    std::list<Chunk> queue[2];
    Deadline next_drip[2]{};
    std::string seen;     // the last bytes that the client sent
    bool losing = false;  // the next bytes of the server are lost
    bool held = false;    // hold()
    bool late = false;    // let_go(), and not yet answered
    bool closing[2]{};    // no more bytes come for that side
    bool dead = false;
  };
  struct Rules {
    Duration delay[2]{};
    bool stall[2]{};
    std::size_t drip[2]{};
    Duration drip_every[2]{};
    bool refuse = false, blackhole = false;
    std::optional<std::string> lose, hold;
    bool quietly = false;
  };

  void run();
  void accept_one();
  void read_from(Link&, Side);
  void write_to(Link&, Side);
  void wake();

  const std::uint16_t target_;
  std::uint16_t port_ = 0;
  Fd listener_, event_;
  std::mutex mutex_;
  Rules rules_;
  std::list<Link> links_;
  bool stop_ = false;
  unsigned lost_ = 0, asked_to_lose_ = 0;
  std::thread thread_;
};

}  // namespace dlock::test
