# A tree that works wherever it is put: the command finds everything relative to itself.

if(CISTERN_BUILD_PRELOAD)
    # Not GNUInstallDirs' libdir, which may be lib64 or lib/x86_64-linux-gnu: the command looks into lib.
    install(TARGETS cistern LIBRARY DESTINATION lib)
    install(TARGETS cistern_config_tool RUNTIME DESTINATION libexec/cistern)
    install(PROGRAMS scripts/cistern DESTINATION ${CMAKE_INSTALL_BINDIR})
    install(FILES README.md LICENSE CHANGELOG.md DESTINATION share/doc/cistern)
endif()
